"""python -m data_tools: the same as the command streammargin-data."""

import sys

from data_tools.main import main

sys.exit(main())
