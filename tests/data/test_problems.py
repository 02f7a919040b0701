import pytest

from vedute.data.problems import name_problems, why_unsafe


@pytest.mark.parametrize("name", ["nice", "Zürich", "مستشفى القاهرة", "病院", "site 3", "a.b", "st-louis_2", "می‌خواهم"])
def test_names_in_any_script_are_allowed(name):
    assert why_unsafe(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"), ("  ", "empty"), ("a/b", "'/'"), ("a\\b", "contains"), ("..", "dot"), (".", "dot"),
        (".hidden", "dot"), ("a.", "dot"), (" a", "space"), ("x" * 300, "100 characters"), ("م" * 101, "100"),
        ("病" * 90, "200 bytes"), ("a\nb", "invisible"), ("a\u202eb", "invisible"), ("\ud800", "invisible"),
        ("CON", "Windows"), ("nul.txt", "Windows"), ("a:b", "':'"), ("a\0b", "invisible"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_folders_are_refused(name, reason):
    assert reason in (why_unsafe(name) or "")


def test_names_that_one_folder_cannot_tell_apart_are_refused():
    problems = name_problems(["Nice", "nice", "caf\u00e9", "cafe\u0301", "paris"], "center", "study.toml")
    assert len(problems) == 2
    assert all("differ only in spelling" in problem for problem in problems)
