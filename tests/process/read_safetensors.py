"""read_safetensors.py FILE: prints name, type, shape and values of each float32 tensor.

The tensors appear in the order of their data in the file.
"""
import json
import math
import struct
import sys

with open(sys.argv[1], "rb") as file:
    data = file.read()
(length,) = struct.unpack_from("<Q", data)
assert data[8:9] == b"{" and length % 8 == 0, "no header of safetensors"
header = json.loads(data[8:8 + length].decode("utf-8"))
assert header.pop("__metadata__") == {"format": "pt"}
end = 0
for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
    begin, stop = tensor["data_offsets"]
    count = math.prod(tensor["shape"])
    assert tensor["dtype"] == "F32" and begin == end and stop - begin == 4 * count, name
    values = struct.unpack_from(f"<{count}f", data, 8 + length + begin)
    print(name, tensor["dtype"], tensor["shape"], *(f"{value:.10f}" for value in values))
    end = stop
assert 8 + length + end == len(data), "the tensors do not end with the file"
