"""Tables of the command line."""

from sless.cli.output import print_table


def test_a_table_shows_only_the_first_line_of_a_message(capsys):
    print_table(["NAME", "MESSAGE"], [("a", "first\nsecond"), ("b", "")])
    assert capsys.readouterr().out == "NAME  MESSAGE\na     first\nb     -\n"
