#!/usr/bin/env python3
"""Runs the tests of tools/python with pytest, on the library of a build.

    tests/python/run.py BUILD [PYTEST'S ARGUMENTS...]

Exits with 77, as a test that is skipped, where pytest is not installed.
"""
import os
import sys

try:
    import pytest
except ImportError:
    print("skipped: python3-pytest is not installed")
    sys.exit(77)

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["PUMICE_BUILD"] = os.path.abspath(sys.argv[1])
sys.dont_write_bytecode = True
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", os.path.dirname(os.path.abspath(__file__)), *sys.argv[2:]]))
