"""Queries a store with DuckDB again and again until standard input ends, and prints what was wrong as JSON.

Arguments: the store's directory. Each line of standard input is the id of an upload that must be in every query from then
on. A line is wrong if its bytes are missing or too short, unless a later query doesn't have it any more: its upload was
removed after the query.
"""

import json
import os
import sys
import threading

import duckdb

root = sys.argv[1]
QUERY = f"""
    select upload_id, content_path, content_size from read_json('{root}/uploads/kind=*/date=*/*.ndjson',
      format='newline_delimited', hive_partitioning=true, ignore_errors=true, maximum_object_size=67108864,
      columns={{upload_id: 'VARCHAR', content_path: 'VARCHAR', content_size: 'BIGINT'}})
    where upload_id is not null"""

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


threading.Thread(target=read_expected, daemon=True).start()
connection = duckdb.connect()
result = {"queries": 0, "errors": [], "not_found": [], "doubled": [], "without_bytes": []}
suspects = {}
print("ready", flush=True)
while True:
    is_last = ended.is_set()
    wanted = set(expected)
    try:
        rows = connection.execute(QUERY).fetchall()
    except duckdb.Error as error:
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
