#!/usr/bin/env python3
"""Answers every expression of testdata/types/*.txt anew, by a PostgreSQL 15 server.

usage: regenerate.py [psql options]     e.g. regenerate.py -h /tmp -p 5433 -U postgres

The answers are what the weir-types tests compare with; they need no server.
"""
import glob, os, re, subprocess, sys

SETUP = r"""
SET client_min_messages = warning; SET timezone = 'UTC'; SET datestyle = 'ISO, MDY';
CREATE FUNCTION pg_temp.answer(expression text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE found text;
BEGIN
  EXECUTE 'SELECT format(''%s: %s'', pg_typeof(x), CASE WHEN x IS NULL THEN ''NULL'' ELSE format(''%s'', x) END) '
    || 'FROM (SELECT ' || expression || ' AS x) AS s' INTO found;
  RETURN replace(found, E'\n', '\n');
EXCEPTION WHEN OTHERS THEN
  RETURN 'ERROR ' || SQLSTATE || ': ' || replace(SQLERRM, E'\n', '\n');
END $f$;
"""


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "*.txt"))):
        lines = [line.rstrip("\n") for line in open(path, encoding="utf-8")]
        cases = [line.split(" => ")[0] for line in lines if line and not line.startswith("#")]
        server = lambda case: re.sub(r"^(extract|position)\(", r'pg_catalog."\1"(', case)
        script = SETUP + "".join(
            "SELECT pg_temp.answer($c$%s$c$);\n" % server(case) for case in cases
        )
        ran = subprocess.run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", *sys.argv[1:]],
                             input=script, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(ran.stderr)
        answers = iter(ran.stdout.split("\n"))
        with open(path, "w", encoding="utf-8") as out:
            for line in lines:
                if line and not line.startswith("#"):
                    line = "%s => %s" % (line.split(" => ")[0], next(answers))
                out.write(line + "\n")


main()
