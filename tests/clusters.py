"""A cluster of two processes of dask, of which one may be killed."""

import os
import signal
from contextlib import contextmanager

import pytest

pytest.importorskip("distributed")

from streammargin.dask import cluster as on_cluster
from streammargin.dask import rounds

NEEDED = {"memory": "64M", "tol": 1e-4}


def bits(result):
    arrays = result.model.answer.arrays()
    return [{name: array.tobytes() for name, array in arrays.items()}, result.certificate.to_dict()]


@contextmanager
def on_one_worker(monkeypatch):
    """All tasks are asked of the first worker."""
    both = rounds.Round.workers
    with monkeypatch.context() as patched:
        patched.setattr(rounds.Round, "workers", lambda self: both(self)[:1])
        yield


def killing(monkeypatch, client, number):
    """Kill the worker that is asked last, with SIGKILL, while round `number`, from 0, waits for its answers."""
    made, begun, of_worker = [], [], client.run(os.getpid)
    answers, ask = rounds.Round.answers, on_cluster.Cluster._ask

    def asked(self, round_, address, *given):
        if round_ not in begun:
            begun.append(round_)
        round_.last = address
        ask(self, round_, address, *given)

    def killed(self):
        if self in begun[number : number + 1] and not made:
            made.append(self.last)
            os.kill(of_worker[self.last], signal.SIGKILL)
        return answers(self)

    monkeypatch.setattr(rounds.Round, "answers", killed)
    monkeypatch.setattr(on_cluster.Cluster, "_ask", asked)
    return made
