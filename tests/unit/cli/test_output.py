"""Tables stay tables."""

from sless.cli.output import print_table


def test_of_a_message_of_several_lines_a_table_shows_the_first(capsys):
    print_table(["NAME", "MESSAGE"], [("a", "first\nsecond"), ("b", "")])
    assert capsys.readouterr().out == "NAME  MESSAGE\na     first\nb     -\n"
