# SPDX-License-Identifier: Apache-2.0
"""junit_counts.py FILE: prints "PASSED FAILED". A test that was not run counts as failed, unless it
said itself that it cannot run here (SKIP_RETURN_CODE): then its reason goes to stderr."""

import sys
import xml.etree.ElementTree as ElementTree


def skips_itself(case):
    skipped = case.find("skipped")
    return skipped is not None and "SKIP_RETURN_CODE" in skipped.get("message", "")


def main():
    passed = failed = 0
    for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None or case.get("status") == "disabled"
        if skips_itself(case):
            reason = (case.findtext("system-out") or "it gave no reason").strip()
            print(f"   {case.get('name')}: {reason.splitlines()[-1]}", file=sys.stderr)
        elif bad or case.get("status") == "fail" or case.get("status") == "notrun":
            failed += 1
        elif not skipped:
            passed += 1
    print(passed, failed if passed + failed else 1)


main()
