"""What the page shows is what there is."""
import inspect
import re

from conftest import SOURCES

import pumice


def test_names():
    page = (SOURCES / "README.md").read_text()
    code = "\n".join(re.findall(r"^    (.*)$", page, flags=re.MULTILINE))
    names = set(re.findall(r"\bpumice\.(\w+)", code))
    assert len(names) > 10
    for name in names:
        assert hasattr(pumice, name), name
    shown = "\n".join(re.findall(r"`(pumice\.\w+)", page))
    for name in set(re.findall(r"pumice\.([A-Z]\w+)", shown)):
        assert hasattr(pumice, name), name


def test_help():
    """Everything that people call says what it does."""
    for name, each in vars(pumice).items():
        if name[0] == "_" or inspect.ismodule(each):
            continue
        assert inspect.getdoc(each), name
        if inspect.isclass(each) and not issubclass(each, (tuple, str, BaseException)):
            for method, function in vars(each).items():
                if method[0] != "_" and (inspect.isfunction(function) or isinstance(function, property)):
                    assert inspect.getdoc(function), f"{name}.{method}"
