"""Trainings that are stopped and go on, and what of their results must be the same to the bit."""

import json

CLOCKS = {
    "seconds", "compile_seconds", "read_seconds", "compute_seconds", "wait_seconds", "bytes_read", "reads",
    "rss_bytes",
}  # fmt: skip


def stop_after(units):
    """A `should_stop` that is "signal" once it was asked so many times."""
    left = iter(range(units))
    return lambda: None if next(left, None) is not None else "signal"


def until_done(train, units):
    """The result of train(should_stop=...), stopped after so many units each time until it ends; how often it began."""
    result, starts = train(should_stop=stop_after(units)), 1
    while result.reason == "signal":
        result, starts = train(should_stop=stop_after(units)), starts + 1
    return result, starts


def timeless(events, *but):
    """Events without checkpoints, and without what depends on the time, or on what else is named."""
    known = CLOCKS.union(but)
    return [{k: v for k, v in event.items() if k not in known} for event in events if event["event"] != "checkpoint"]


def bits(result, *but):
    """The arrays of the model, and the events as text."""
    arrays = {name: array.tobytes() for name, array in result.model.answer.arrays().items()}
    return arrays, json.dumps(timeless(result.history, *but))


def check_every_pass(train, folder):
    """A training that ends after any of its passes, with a proof of its own, goes on to the bits of the whole one."""
    whole = train(checkpoint=str(folder / "whole"))
    assert whole.converged and whole.passes >= 3
    for passes in range(1, whole.passes):
        there = str(folder / str(passes))
        train(checkpoint=there, passes=passes)
        other = train(checkpoint=there)
        assert other.passes == whole.passes and other.certificate == whole.certificate
        assert bits(other)[0] == bits(whole)[0]
