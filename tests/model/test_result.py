"""What a training returns and says."""

import dataclasses
import logging

import numpy as np
import pytest

import streammargin as sm


def noisy(classes=2):
    rng = np.random.default_rng(0)
    return rng.standard_normal((80, 4)), rng.integers(0, classes, 80)


def test_the_certificate_is_a_frozen_table_of_figures():
    result = sm.train(*noisy(3))
    certificate = result.certificate
    assert certificate.converged and 0.0 <= certificate.gap <= 1e-3 and certificate.margin_upper is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.gap = 0.0
    events = [event for event in result.history if event["event"] == "certificate"]
    figures = certificate.to_dict()
    assert figures == result.model.header["certificate"]
    assert {key: events[-1][key] for key in figures if key != "converged"} == {
        key: figures[key] for key in figures if key != "converged"
    }


def test_a_result_fits_on_a_screen():
    text = repr(sm.train(*noisy(40), passes=200))
    assert len(text) < 1000 and "gap=" in text and "reason=" in text


def test_what_did_not_converge_is_told_as_python_spells_it(caplog):
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.train(*noisy())
        assert not caplog.records
        sm.train(*noisy(), passes=1, tol=1e-9)
    (record,) = caplog.records
    assert "not converged after 1 passes" in record.getMessage() and "raise passes or tol" in record.getMessage()
    assert "--" not in record.getMessage()


def test_a_signal_is_no_news(caplog):
    result = sm.train(*noisy(), should_stop=lambda: "signal")
    assert result.reason == "signal" and not caplog.records
