"""Queries a store with DuckDB and Polars in turns until standard input ends, and prints what was wrong as JSON.

Arguments: the store's directory and, for a bucket, its URL. A bucket also needs the service's variables for S3. Each
line of standard input is the id of an upload that must be in every query from then on. A line is wrong if its bytes are
missing or too short, unless a later query doesn't have it any more: its upload was removed after the query.
"""

import itertools
import json
import os
import sys
import threading

import duckdb
import polars as pl

directory, root = sys.argv[1], sys.argv[-1]
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
        return os.path.getsize(os.path.join(directory, path)) == size
    except FileNotFoundError:
        return False


def with_duckdb():
    return connection.execute(QUERY).fetchall()


def with_polars():
    lines = pl.scan_lines(f"{root}/uploads/kind=*/date=*/*.ndjson", storage_options=options).filter(pl.col("line").str.ends_with("}"))
    return lines.select(pl.col("line").str.json_decode(LINE).struct.unnest()).collect().rows()


threading.Thread(target=read_expected, daemon=True).start()
connection = duckdb.connect()
options = None
if root.startswith("s3://"):
    endpoint, region, key, secret = (os.environ[name] for name in ("S3_ENDPOINT", "S3_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    options = {"aws_endpoint_url": endpoint, "aws_region": region, "aws_access_key_id": key, "aws_secret_access_key": secret, "aws_allow_http": "true"}
    connection.execute("load httpfs")
    connection.execute(f"""create secret (type s3, key_id '{key}', secret '{secret}', region '{region}',
        endpoint '{endpoint.removeprefix("http://")}', url_style 'path', use_ssl false)""")
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
