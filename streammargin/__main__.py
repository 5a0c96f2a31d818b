"""python -m streammargin"""

import sys

from streammargin.cli.main import main

sys.exit(main())
