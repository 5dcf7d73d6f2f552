"""Writes a wheel, the same bytes whenever and wherever that is done.

  wheel.py OUTPUT VERSION TAG ENTRY...

OUTPUT is smelt-VERSION-TAG.whl. An ENTRY is PATH=FILE, or PATH=FILE:x for an executable one.
"""

import base64
import hashlib
import sys
import zipfile

_METADATA = """Metadata-Version: 2.1
Name: smelt
Version: {version}
Summary: Compiles and runs PyTorch models that mutate tensors and share memory
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
"""

_WHEEL = """Wheel-Version: 1.0
Generator: smelt
Root-Is-Purelib: false
Tag: {tag}
"""


def _add(archive, path, content, executable=False):
    info = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content, compresslevel=6)


def main(output, version, tag, entries):
    info = f"smelt-{version}.dist-info"
    files = {
        f"{info}/METADATA": (_METADATA.format(version=version).encode(), False),
        f"{info}/WHEEL": (_WHEEL.format(tag=tag).encode(), False),
    }
    for entry in entries:
        path, file = entry.split("=", 1)
        executable = file.endswith(":x")
        with open(file[:-2] if executable else file, "rb") as f:
            files[path] = (f.read(), executable)
    record = []
    with zipfile.ZipFile(output, "w") as archive:
        for path in sorted(files):
            content, executable = files[path]
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")
            _add(archive, path, content, executable)
        _add(archive, f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
