"""Which lines of functions run: a tracer for code that is plain Python (without the JIT, kernels are)."""

import sys
import threading


def _lines(code, but):
    """Line numbers of the bodies of all functions in a code object, nested ones too, but for those of these names."""
    found = set()
    for inner in code.co_consts:
        if hasattr(inner, "co_lines") and inner.co_name not in but:
            found |= _lines(inner, but)
            if inner.co_flags & 1:  # optimised locals: a function, no class body
                found |= {line for _, _, line in inner.co_lines() if line and line != inner.co_firstlineno}
    return found


class Covered:
    """A context in which the lines of these files (paths) are watched; `but` names functions that do not count."""

    def __init__(self, paths, but=()):
        self.files = {str(path): _lines(compile(path.read_text(), str(path), "exec"), but) for path in paths}
        self.seen = {name: set() for name in self.files}

    def __enter__(self):
        threading.settrace(self._enter)  # what the reader's thread runs counts too
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error):
        sys.settrace(None)
        threading.settrace(None)

    def _enter(self, frame, event, argument):
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.seen[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line

    def missed(self):
        """{path: lines that never ran}, only of files that have some."""
        return {name: rest for name, lines in self.files.items() if (rest := sorted(lines - self.seen[name]))}

    def share(self):
        """The part of all lines that ran."""
        return 1.0 - sum(map(len, self.missed().values())) / sum(map(len, self.files.values()))
