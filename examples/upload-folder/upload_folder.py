"""Uploads all files of a folder as historical load data. Run again after a failure, it stores nothing twice.

    python3 upload_folder.py http://127.0.0.1:3000 acme-energy 'Landis+Gyr' ./load-files

Needs nothing but Python 3.9. TOKEN in the environment is sent as the bearer token.
"""

import base64
import hashlib
import os
import pathlib
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ATTEMPTS = 5


def digest_of(path: pathlib.Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()


def upload(base_url: str, customer: str, manufacturer: str, path: pathlib.Path) -> "tuple[str, bool]":
    """Returns the id of the upload, and whether it had been stored before."""
    query = urllib.parse.urlencode({"customer_id": customer, "filename": path.name, "manufacturer": manufacturer})
    digest = digest_of(path)
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str(path.stat().st_size),
        "X-Upload-Digest": f"sha-256=:{base64.b64encode(digest).decode()}:",
        # The same file under the same name is the same upload.
        "Idempotency-Key": hashlib.sha256(path.name.encode() + b"\0" + digest).hexdigest(),
    }
    if token := os.environ.get("TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    url = f"{base_url.rstrip('/')}/ingestHistoricalLoadData/upload_historical?{query}"
    for attempt in range(1, ATTEMPTS + 1):
        pause = 0.25 * 2**attempt
        try:
            with path.open("rb") as file:
                request = urllib.request.Request(url, data=file, headers=headers, method="POST")
                with urllib.request.urlopen(request) as answer:
                    return answer.headers["X-Upload-Id"], answer.headers.get("Idempotent-Replayed") == "true"
        except urllib.error.HTTPError as error:
            retry_after = error.headers.get("Retry-After")
            if attempt == ATTEMPTS or not (retry_after or error.code in (502, 503, 504)):
                sys.exit(f"{path}: {error.code} {error.read().decode(errors='replace')} (request {error.headers.get('X-Request-Id')})")
            pause = float(retry_after) if retry_after else pause
        except urllib.error.URLError as error:
            if attempt == ATTEMPTS:
                sys.exit(f"{path}: {error.reason}")
        time.sleep(pause)
    raise AssertionError


def main() -> None:
    if len(sys.argv) != 5:
        sys.exit("usage: upload_folder.py <base URL> <customer id> <manufacturer> <folder>")
    base_url, customer, manufacturer, folder = sys.argv[1:]
    for path in sorted(pathlib.Path(folder).iterdir()):
        if path.is_file():
            upload_id, known = upload(base_url, customer, manufacturer, path)
            print(f"{path.name}: {upload_id}{' (stored before)' if known else ''}")


if __name__ == "__main__":
    main()
