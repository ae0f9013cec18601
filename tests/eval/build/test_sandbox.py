"""Programs return, or end in the way that is theirs; none reaches the outside."""

import sys

import pytest

from eval.build.sandbox import Limits, call_f, literal_equal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")

# A program without imports that gets at the os module all the same.
OS = """
    found = [c for c in object.__subclasses__() if c.__name__ == "_wrap_close"]
    os = found[0].__init__.__globals__
"""
FLOOD = (
    OS
    + """
    while True:
        for fd in range(3, 9):
            try:
                os["write"](fd, b"x" * 10**6)
            except OSError:
                pass
"""
)


def f_of(body: str) -> str:
    return "def f(*args):\n" + body


def test_a_program_returns_its_value() -> None:
    done = call_f(
        "from collections import Counter\ndef f(x, y=1):\n    print(x)\n    return Counter(x), y", "'abca', y=2"
    )

    assert (done.status, done.value) == ("returned", "(Counter({'a': 2, 'b': 1, 'c': 1}), 2)")
    assert done.network in ("namespace", "hook")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("    return 1 / 0", "raised", "ZeroDivisionError"),
        ("    raise SystemExit", "crashed", "no result"),
        ("    return f()", "raised", "RecursionError"),
        ("    return len([0] * 10**10)", "memory", "MemoryError"),
        ("    kept = []\n    while True:\n        kept.append('a' * 10**7 + str(len(kept)))", "memory", "MemoryError"),
        ("    import socket", "refused", "socket"),
        ("    from os import system", "refused", "os"),
        ("    try:\n        return __import__('socket')\n    except Exception:\n        return 1", "refused", "import"),
        ("    open('x', 'w').write('a')", "refused", "open"),
        ("    return open('/etc/passwd').read()", "refused", "open"),
        (OS + "    return os['fork']()", "refused", "os.fork"),
        (OS + "    return os['system']('true')", "refused", "os.system"),
        (OS + "    return os['execv']('/bin/true', ['true'])", "refused", "os.exec"),
        (OS + "    os['kill'](1, 9)", "refused", "os.kill"),
        ("    return 'é' * 10**6", "output", "characters"),
        (
            FLOOD,
            "output",
            "bytes",
        ),
        ("    return (", "raised", "SyntaxError"),
    ],
)
def test_a_program_that_misbehaves_is_named_for_it(body: str, status: str, message: str) -> None:
    done = call_f(f_of(body), "", Limits(memory_bytes=128 * 2**20))

    assert done.status == status
    assert message in done.message
    assert done.value == ""


def test_a_program_without_f_raises() -> None:
    assert call_f("g = 1", "").message.startswith("NameError")


def test_an_endless_loop_ends_by_the_wall_clock() -> None:
    done = call_f(f_of("    while True:\n        pass"), "", Limits(wall_s=0.5))

    assert (done.status, done.message) == ("timeout", "no result within 0.5 s")


def test_an_endless_loop_ends_by_processor_time() -> None:
    done = call_f(f_of("    while True:\n        pass"), "", Limits(cpu_s=1))

    assert (done.status, done.message) == ("timeout", "more than 1 s of processor time")


def test_neither_environment_nor_working_directory_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    done = call_f(f_of(OS + "    return dict(os['environ'])"), "")

    assert "SECRET" not in done.value
    assert done.status == "returned"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("[1, 2]", "[1,2]", True),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", True),
        ("'a'", '"a"', True),
        ("True", "1", False),
        ("[1]", "(1,)", False),
        ("[True]", "[1]", False),
        ("{'a': (1.0,)}", "{'a': (1,)}", False),
        ("{1: 'a'}", "{True: 'a'}", False),
        ("{(1, 2), 'a'}", "{'a', (1, 2)}", True),
        ("'ab'", "'AB'", False),
        ("nan", "nan", True),
        ("Counter()", "Counter({})", False),
        ("{[1]}", "{[1]}", True),
    ],
)
def test_results_are_compared_as_literals(one: str, other: str, equal: bool) -> None:
    assert literal_equal(one, other) is equal


def test_the_order_of_a_set_is_the_same_in_every_run() -> None:
    code = "def f():\n    return list({'ab', 'cd', 'ef', 'gh', 'ij'})"
    assert len({call_f(code, "").value for _ in range(4)}) == 1
