from __future__ import annotations

from conecollapse.demo import main


def test_the_demo_recovers_and_verifies(capsys):
    main()
    printed = capsys.readouterr().out
    assert "12 rays found" in printed
    assert "the same rays: True" in printed
    assert printed.count("erified") >= 3
    assert "refused (point" in printed
