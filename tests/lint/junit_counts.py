# SPDX-License-Identifier: Apache-2.0
"""junit_counts.py FILE: prints "PASSED FAILED"; a test that was not run counts as failed."""

import sys
import xml.etree.ElementTree as ElementTree


def main():
    passed = failed = 0
    for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None or case.get("status") == "disabled"
        if bad or case.get("status") == "fail" or case.get("status") == "notrun":
            failed += 1
        elif not skipped:
            passed += 1
    print(passed, failed if passed + failed else 1)


main()
