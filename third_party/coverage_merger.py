#!/usr/bin/python3
"""Merges coverage into one lcov tracefile. Stands in for Bazel's own merger, which is a download and needs Java.

Bazel calls it twice: per test, with --coverage_dir (what gcov wrote); and at the end, with --reports_file (a list of tracefiles).
"""

import argparse
import collections
import gzip
import json
import pathlib
import re


def read_tracefile(path, hits):
    source = None
    for row in path.read_text().splitlines():
        key, _, value = row.partition(":")
        if key == "SF":
            source = value.strip()
        elif key == "DA":
            line, count = value.split(",")[:2]
            hits[source][int(line)] += int(count)


def read_gcov(path, hits):
    with gzip.open(path) as stream:
        for entry in json.load(stream)["files"]:
            for line in entry["lines"]:
                hits[entry["file"]][line["line_number"]] += line["count"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--coverage_dir", type=pathlib.Path)
    parser.add_argument("--reports_file", type=pathlib.Path)
    parser.add_argument("--output_file", required=True, type=pathlib.Path)
    parser.add_argument("--filter_sources", action="append", default=[])
    args, _ = parser.parse_known_args()

    hits = collections.defaultdict(collections.Counter)  # file -> line -> count
    if args.reports_file:
        for name in args.reports_file.read_text().split():
            if not name.endswith("baseline_coverage.dat"):
                read_tracefile(pathlib.Path(name), hits)
    else:
        for path in args.coverage_dir.rglob("*.dat"):
            read_tracefile(path, hits)
        for path in args.coverage_dir.rglob("*.gcov.json.gz"):
            read_gcov(path, hits)

    with args.output_file.open("w") as out:
        for source, lines in sorted(hits.items()):
            if any(re.fullmatch(pattern, source) for pattern in args.filter_sources):
                continue
            print("SF:" + source, file=out)
            for line, count in sorted(lines.items()):
                print(f"DA:{line},{count}", file=out)
            print(f"LH:{sum(count > 0 for count in lines.values())}\nLF:{len(lines)}\nend_of_record", file=out)


main()
