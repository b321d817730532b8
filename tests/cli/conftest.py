"""What the tests of the commands share."""

import pytest

from nystream.cli import main


@pytest.fixture
def refused(capsys):
    """The one line that a command is refused with."""

    def refused(*arguments):
        assert main([*arguments]) == 2
        err = capsys.readouterr().err
        assert err.startswith("nystream: error: ")
        assert len(err.splitlines()) == 1
        return err

    return refused
