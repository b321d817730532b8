"""Fixtures shared by the tests of the commands."""

import pytest

from nystream.cli import main


@pytest.fixture
def refused(capsys):
    """Run a command that must fail, and return its one-line error."""

    def refused(*arguments):
        assert main([*arguments]) == 2
        err = capsys.readouterr().err
        assert err.startswith("nystream: error: ")
        assert len(err.splitlines()) == 1
        return err

    return refused
