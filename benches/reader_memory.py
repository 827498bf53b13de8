"""`reader_memory.py HINDSIGHT`: peak memory of every reader against the size of the data that it returns.

Makes files of some 64 MB of values (needs NumPy and Pillow), has each read by `data check`, `learn` or
`predict`, and prints a table; fails if one takes more than four times its data and 64 MB."""

import contextlib
import gzip
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

BINARY = Path(sys.argv[1]).resolve()
ROWS, WIDTH = 160_000, 100


def peak(folder, *args):
    """Peak resident memory of a command, in MB, as the system last told before it ended."""
    child = subprocess.Popen([BINARY, *args], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    most, status = 0, Path(f"/proc/{child.pid}/status")
    while child.poll() is None:
        # What `wait` tells would include this process, from before the other began.
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{child.pid}/exe") == str(BINARY):
                lines = [line.split() for line in status.read_text().splitlines() if line.startswith("VmHWM")]
                most = max([most, *(int(line[1]) for line in lines)])
        time.sleep(0.002)
    assert child.returncode == 0, child.stderr.read()
    return most * 1024 / 1e6


def stream(folder, format, train, labels=None, keys=""):
    labels = f'labels = "{labels}"\n' if labels else ""
    (folder / "s.toml").write_text(f'format = "{format}"\nhold_out = 0.1\n{keys}[[files]]\ntrain = "{train}"\n{labels}')
    return peak(folder, "data", "check", "s.toml")


def main():
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = rng.normal(size=(ROWS, WIDTH)).astype("f4")
        y = (np.arange(ROWS) % 10).astype("u1")
        floats = x.nbytes / 1e6
        rows = []

        def measured(reader, megabytes, found):
            rows.append((reader, megabytes, found, 4 * megabytes + 64))
            print(f"{reader}: {found:.0f} MB for {megabytes:.0f} MB", file=sys.stderr)

        with open(folder / "a.csv", "w") as file:
            file.write(",".join(f"x{i}" for i in range(WIDTH)) + ",label\n")
            for row, label in zip(x, y):
                file.write(",".join(f"{value:.4f}" for value in row) + f",{label}\n")
        label = 'label = "label"\n'
        measured("CSV", floats, stream(folder, "csv", "a.csv", keys=label))
        with gzip.open(folder / "a.csv.gz", "wb", 1) as file:
            file.write((folder / "a.csv").read_bytes())
        measured("CSV, gzip", floats, stream(folder, "csv", "a.csv.gz", keys=label))
        # A row at a time: what is returned does not grow with the file.
        learn = ["-q", "-m", "finetune", "-s", "hidden=[8]"]
        measured("rows of CSV (`learn`)", 0, peak(folder, "learn", "m", "a.csv", *learn))
        measured("rows of CSV (`predict`)", 0, peak(folder, "predict", "m", "a.csv", "-q", "-o", "answers.csv"))
        os.remove(folder / "a.csv"), os.remove(folder / "a.csv.gz")
        np.save(folder / "y.npy", y)
        for kind in ["f4", "f8", "f2", "u1"]:
            values = (100 * np.abs(x)).astype(kind) if kind == "u1" else x.astype(kind)
            np.save(folder / "x.npy", values)
            measured(f"NPY, {kind}", floats, stream(folder, "npy", "x.npy", "y.npy"))
        np.save(folder / "x.npy", np.asfortranarray(x))
        measured("NPY, Fortran order", floats, stream(folder, "npy", "x.npy", "y.npy"))
        for save, reader in [(np.savez, "NPZ"), (np.savez_compressed, "NPZ, deflated")]:
            save(folder / "a.npz", x=x, y=y)
            measured(reader, floats, stream(folder, "npz", "a.npz"))
        np.savez_compressed(folder / "a.npz", x=np.zeros_like(x), y=y)
        measured("NPZ, deflated zeros", floats, stream(folder, "npz", "a.npz"))
        pixels = rng.integers(0, 256, size=(80_000, 28, 28), dtype="u1")
        images = bytes([0, 0, 8, 3]) + np.array(pixels.shape, ">u4").tobytes() + pixels.tobytes()
        labels = bytes([0, 0, 8, 1]) + np.array([len(pixels)], ">u4").tobytes() + y[: len(pixels)].tobytes()
        (folder / "x.idx").write_bytes(images), (folder / "y.idx").write_bytes(labels)
        measured("IDX", pixels.nbytes / 1e6, stream(folder, "idx", "x.idx", "y.idx"))
        with gzip.open(folder / "x.gz", "wb", 1) as file:
            file.write(images)
        measured("IDX, gzip", pixels.nbytes / 1e6, stream(folder, "idx", "x.gz", "y.idx"))
        for label in "ab":
            (folder / "images" / label).mkdir(parents=True)
        for i in range(400):
            photo = Image.fromarray(rng.integers(0, 256, size=(1200, 1600, 3), dtype="u1")) if i < 8 else photo
            photo.save(folder / "images" / "ab"[i % 2] / f"{i}.{'png' if i % 40 == 0 else 'jpg'}")
        size = 400 * 84 * 84 * 3 / 1e6
        measured("images of 1600 x 1200, JPEG and PNG", size, stream(folder, "images", "images"))
        measured("the same, from their cache", size, stream(folder, "images", "images"))
    print("| reader | data MB | peak MB | limit MB |\n| --- | ---: | ---: | ---: |")
    for reader, data, found, limit in rows:
        print(f"| {reader} | {data:.0f} | {found:.0f} | {limit:.0f} |")
    sys.exit(any(found > limit for _, _, found, limit in rows))


main()
