"""Queries a store with DuckDB and Polars in turns until standard input ends, and prints what was wrong as JSON.

Arguments: the store's directory. Each line of standard input is the id of an upload that must be in every query from then
on. A line is wrong if its bytes are missing or too short, unless a later query doesn't have it any more: its upload was
removed after the query.
"""

import itertools
import json
import os
import sys
import threading

import duckdb
import polars as pl

root = sys.argv[1]
QUERY = f"""
    select upload_id, content_path, content_size from read_json('{root}/uploads/kind=*/date=*/*.ndjson',
      format='newline_delimited', hive_partitioning=true, ignore_errors=true, maximum_object_size=67108864,
      columns={{upload_id: 'VARCHAR', content_path: 'VARCHAR', content_size: 'BIGINT'}})
    where upload_id is not null"""
LINE = pl.Struct({"upload_id": pl.String, "content_path": pl.String, "content_size": pl.Int64})

expected = set()
ended = threading.Event()


def read_expected():
    for line in sys.stdin:
        expected.add(line.strip())
    ended.set()


def is_whole(path, size):
    try:
        return os.path.getsize(os.path.join(root, path)) == size
    except FileNotFoundError:
        return False


def with_duckdb():
    return connection.execute(QUERY).fetchall()


def with_polars():
    lines = pl.scan_lines(f"{root}/uploads/kind=*/date=*/*.ndjson").filter(pl.col("line").str.ends_with("}"))
    return lines.select(pl.col("line").str.json_decode(LINE).struct.unnest()).collect().rows()


threading.Thread(target=read_expected, daemon=True).start()
connection = duckdb.connect()
readers = itertools.cycle([with_duckdb, with_polars])
result = {"queries": 0, "errors": [], "not_found": [], "doubled": [], "without_bytes": []}
suspects = {}
print("ready", flush=True)
while True:
    is_last = ended.is_set()
    wanted = set(expected)
    try:
        rows = next(readers)()
    except (duckdb.Error, pl.exceptions.PolarsError, OSError) as error:
        result["errors"].append(str(error).split("\n")[0])
        continue
    result["queries"] += 1
    ids = [row[0] for row in rows]
    result["not_found"] += wanted.difference(ids)
    result["doubled"] += [] if len(set(ids)) == len(ids) else [len(ids) - len(set(ids))]
    result["without_bytes"] += set(suspects).intersection(ids)
    suspects = {id: path for id, path, size in rows if path is not None and not is_whole(path, size)}
    if is_last and not suspects:
        break
print(json.dumps(result))
