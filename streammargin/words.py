"""Words: names with typed fields. The shell writes NAME:FIELD,FIELD; Python writes the same, or an object.

A FIELD is VALUE (the first field, in the first place), KEY=VALUE, or KEY alone for a field that is yes or no.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import numbers
import os
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

from streammargin.errors import UsageError
from streammargin.kinds import InputName, Kind, Name, NumberOrColumn, YesNo
from streammargin.packages import loaded, points_of
from streammargin.wording import nearest, shown

T = TypeVar("T")
S = TypeVar("S", bound="Thing")


def entry(default: T, kind: Kind, help: str, *, kw_only: bool = False) -> T:
    """A field of a thing. kw_only: always written with its name; the default None means none."""
    notes = {"kind": kind, "help": help}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=notes)


def needed(kind: Kind, help: str) -> Any:
    """A field without a default: it must be given."""
    return dataclasses.field(metadata={"kind": kind, "help": help})


@dataclass_transform(eq_default=False, field_specifiers=(entry, needed))
@dataclasses.dataclass(eq=False)
class Thing:
    """The base class of words: each subclass is one, with its fields behind the colon.

    An object keeps the values that it is given; `checked` returns one with valid values. Objects are equal if their
    classes and fields are.
    """

    name: ClassVar[str]  # the word; default: the name of the class in small letters and underscores
    _entries: ClassVar[list[dataclasses.Field[Any]]] = []
    _has_init: ClassVar[bool] = False  # the class or a base has its own __init__, which is kept

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        text = cls.__dict__.get("__doc__")
        cls._has_init |= "__init__" in vars(cls)
        dataclasses.dataclass(eq=False, init=not cls._has_init)(cls)
        lines = [line for line in dataclasses.fields(cls) if "kind" in line.metadata]
        cls._entries = sorted(lines, key=lambda line: bool(line.kw_only))
        if text:  # python -OO leaves none
            cls.__doc__ = inspect.cleandoc(text) + _parameters(cls)

    @classmethod
    def entries(cls) -> list[dataclasses.Field[Any]]:
        """The fields, in the order in which the word names them."""
        return cls._entries

    @classmethod
    def has_defaults(cls) -> bool:
        """Whether each field has a default, so that the word alone is enough."""
        return all(line.default is not dataclasses.MISSING for line in cls.entries())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The fields by name; scikit-learn calls this."""
        return {line.name: getattr(self, line.name) for line in self.entries()}

    def checked(self: S) -> S:
        """A copy with values of the right types. Raises UsageError for an invalid value."""
        values = {}
        for line in self.entries():
            value = getattr(self, line.name)
            if value is not None or line.default is not None:
                value = line.metadata["kind"].check(f"the parameter {line.name} of {self.name}", value)
            values[line.name] = value
        return self.replace(**values)

    def replace(self: S, **fields: Any) -> S:
        """A copy with other values of these fields; its other attributes are the same."""
        made = copy.copy(self)
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        return all(_same(getattr(self, line.name), getattr(other, line.name)) for line in self.entries())

    def __str__(self) -> str:
        """The word with all fields that have a value."""
        parts = []
        for number, line in enumerate(self.entries()):
            value = getattr(self, line.name)
            if isinstance(line.metadata["kind"], YesNo):
                parts += [line.name] if value is True else [] if value is None else [f"{line.name}=no"]
            elif value is not None:
                text = _text(value)
                parts.append(text if number == 0 and not line.kw_only else f"{line.name}={text}")
        return ":".join([self.name, ",".join(parts)] if parts else [self.name])


def _same(one: Any, other: Any) -> bool:
    if getattr(one, "ndim", 0) or getattr(other, "ndim", 0) or isinstance(one, (list, tuple)):
        import numpy as np

        return np.array_equal(one, other)
    return (type(one) is type(other) and one == other) or (_is_number(one) and _is_number(other) and one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _text(value: Any) -> str:
    """A value as a word spells it; [...] for an array, which no word can hold."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value) if _is_number(value) or isinstance(value, Thing) else "[...]"


def _parameters(cls: type[Thing]) -> str:
    """The fields as a part of a docstring."""
    lines = cls.entries()
    if not lines:
        return ""
    told = [f"{line.name} : {_default(line)}\n    {line.metadata['help']}" for line in lines]
    return "\n\nParameters\n----------\n" + "\n".join(told)


def _default(line: dataclasses.Field[Any]) -> str:
    if line.default is dataclasses.MISSING:
        return "must be given"
    return "default none" if line.default is None else f"default {_text(line.default)}"


@dataclasses.dataclass(frozen=True)
class Family(Generic[S]):
    """The words of one option, and their classes.

    `folder`   where their files are.
    `kind`     the base class.
    `classes`  ours, by word.
    `others`   words of other programs, with ours for each.
    `short`    words that stand for one of ours with fields.
    """

    option: str
    folder: str
    kind: type[S]
    classes: Mapping[str, type[S]]
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)
    short: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """All our words, without fields."""
        return [*self.classes, *self.short]

    def of(self, value: object) -> S:
        """The checked object of a word, or a checked copy of a given object. Raises UsageError."""
        if isinstance(value, str) or (value is None and "none" in self.others):
            return self._parse(str(value))
        if not isinstance(value, self.kind):
            raise UsageError(
                f"`{self.option}` must be a name, as {next(iter(self.classes))}, or an object of a subclass of "
                f"streammargin.{self.folder}.{self.option.title()}, not {shown(value)}"
            )
        return self._with_mend(value.checked, type(value))

    def known(self, word: str) -> S:
        """The object of a saved word: ours, of a package, or of a class of yours that was imported. UsageError."""
        ours = __name__.partition(".")[0] + "."
        own = {cls.name: cls for cls in _subclasses(self.kind) if not cls.__module__.startswith(ours)}
        try:
            return dataclasses.replace(self, classes={**self.classes, **own}).of(word)
        except UsageError as error:
            hint = f"a {self.option} of your own is known once the module of its class is imported"
            raise UsageError(f"{error.raw}; {hint}") from None

    def find(self, name: str) -> type[S]:
        """The class of a word without fields: ours, or one of an entry point. Raises UsageError."""
        long = self.short.get(name, name).partition(":")[0]
        known = self.classes.get(long) or self._of_packages(name)
        if known is not None:
            return known
        words = [*self.words, *self.words_of_packages()]
        low = name.lower()
        alike = low if low in self.others else nearest(low, words) or nearest(low, self.others)
        head, comma, fields = name.partition(",")
        alike = f"{head}:{fields}" if comma and head in words else alike
        meant = f"did you mean `{self.option}={self.others.get(alike, alike)}`? " if alike else ""
        raise UsageError(f"unknown {self.option} {shown(name)}; {meant}known: {', '.join(words)}")

    def words_of_packages(self) -> list[str]:
        """The words that entry points of installed packages add to ours; none of them is imported."""
        found = {point.name for point in points_of(f"streammargin.{self.folder}")}
        return sorted(found.difference(self.words))

    def _of_packages(self, name: str) -> type[S] | None:
        """The class of an entry point. Only words that are not ours look there."""
        group = f"streammargin.{self.folder}"
        for point in (point for point in points_of(group) if point.name == name):
            cls = loaded(point)
            if not (isinstance(cls, type) and issubclass(cls, self.kind)):
                raise UsageError(f"the entry point {name} of {group} is not a subclass of {self.option.title()}")
            if cls.name != name:  # models and logs have the word of the class
                raise UsageError(
                    f"the entry point {name} of {group} is the class {cls.__name__}, whose name is {cls.name}; "
                    "give both the same name"
                )
            return cls
        return None

    def _parse(self, word: str) -> S:
        name, colon, rest = word.partition(":")
        if name in self.short:
            if colon:
                raise UsageError(f"{name} stands for `{self.option}={self.short[name]}`; give its parameters there")
            return self._parse(self.short[name])
        cls = self.find(name)
        return self._with_mend(lambda: cls(**dict(_values(cls, rest) if colon else ())).checked(), cls)

    def _with_mend(self, make: Callable[[], S], cls: type[S]) -> S:
        try:
            return make()
        except UsageError as error:
            raise UsageError(f"{error.raw}; {self.spelling(cls)}") from None
        except TypeError:
            missing = [line.name for line in cls.entries() if line.default is dataclasses.MISSING]
            raise UsageError(f"{cls.name} needs {' and '.join(missing)}; {self.spelling(cls)}") from None

    def spelling(self, cls: type[S]) -> str:
        """The fields of a word, with their defaults and an example."""
        lines = cls.entries()
        if not lines:
            return f"{cls.name} has no parameters: `{self.option}={cls.name}`"
        fields = ", ".join(f"{line.name} ({_default(line)})" for line in lines)
        return f"{cls.name} has {fields}, as in `{self.option}={cls.name}:{_example(lines[0])}`"


def classes_in(package: str, folders: Iterable[str], table: str) -> list[Any]:
    """The classes that the files of a package, which lies in these folders, list under the name of the table."""
    modules = (importlib.import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(folders))
    return [cls for module in modules for cls in getattr(module, table, ())]


def called(name: str, classes: Iterable[type], package: str) -> type:
    """The class of this name, for `__getattr__` of a package. Raises AttributeError."""
    for cls in classes:
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def _subclasses(cls: type[S]) -> Iterator[type[S]]:
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)


def _example(line: dataclasses.Field[Any]) -> str:
    kind = line.metadata["kind"]
    if isinstance(kind, YesNo):
        return line.name
    value = getattr(kind, "metavar", None) or "VALUE"
    if kind.choices:
        value = kind.choices[0]
    elif line.default not in (None, dataclasses.MISSING):
        value = _text(line.default)
    return f"{line.name}={value}" if line.kw_only else value


def _values(cls: type[Thing], rest: str) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields in the text behind the colon of a word."""
    lines = {line.name: line for line in cls.entries()}
    seen: set[str] = set()
    for number, part in enumerate(_parts(lines, rest)):
        key, equals, text = part.partition("=")
        line = lines.get(key)
        if line is not None and not equals and isinstance(line.metadata["kind"], YesNo):
            text = "yes"
        elif line is None or not equals:
            first = next(iter(lines.values()), None)
            if number or first is None or first.kw_only or not _may_be(first.metadata["kind"], part):
                raise UsageError(f"{cls.name} has no parameter {shown(key.rpartition(',')[2] if equals else key)}")
            line, text = first, part
        if line.name in seen:
            raise UsageError(f"the parameter {line.name} of {cls.name} is given twice")
        seen.add(line.name)
        kind = line.metadata["kind"]
        yield line.name, kind.read(os.path.expanduser(text) if isinstance(kind, InputName) else text)


def _may_be(kind: Kind, text: str) -> bool:
    """Whether a text can be the value of the first field; else it names a field that does not exist."""
    if isinstance(kind, NumberOrColumn):
        return not kind.like_a_field(text)
    return text in kind.choices if isinstance(kind, YesNo) else isinstance(kind, Name) or "=" not in text


def _parts(lines: Mapping[str, dataclasses.Field[Any]], rest: str) -> list[str]:
    """The text, split at commas before a field only: names of files may contain commas."""
    parts: list[str] = []
    for piece in rest.split(","):
        key, equals, _ = piece.partition("=")
        line = lines.get(key)
        begins = line is not None and (equals or isinstance(line.metadata["kind"], YesNo))
        if begins or not parts:
            parts.append(piece)
        else:
            parts[-1] += f",{piece}"
    return parts


@dataclasses.dataclass(frozen=True)
class Worded(Kind, Generic[S]):
    """A word of a family, or an object of one of its classes; unset: a word that leaves the choice to the data."""

    family: Family[S]
    unset: str | None = None

    @property
    def metavar(self) -> str:  # type: ignore[override]
        return self.family.option.upper()

    def check(self, what: str, value: object) -> S | None:
        left = value is None or (isinstance(value, str) and value == self.unset)
        return None if self.unset is not None and left else self.family.of(value)

    def read_by(self, value: object) -> list[tuple[InputName, str]]:
        """(kind, name) of each file or column that the fields of this word or object name."""
        try:
            thing = self.family.of(value)
        except UsageError:  # reported where it is used
            return []
        found = [(line.metadata["kind"], getattr(thing, line.name)) for line in thing.entries()]
        return [(k, os.fspath(v)) for k, v in found if isinstance(k, InputName) and isinstance(v, (str, os.PathLike))]
