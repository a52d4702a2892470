"""Fits a line to a data set on a storage, and goes on from its last checkpoint when it is started again.

Environment: DATA, a directory with samples.csv (a header, then x and y), and OUT, where checkpoints and the loss
for TensorBoard are kept. Both mostly lie on storages, so that the next attempt finds them on whatever machine it runs.
"""

import json
import os
import pathlib
import signal
import sys
import time

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

DATA = pathlib.Path(os.environ.get("DATA", "/mnt/data"))
OUT = pathlib.Path(os.environ.get("OUT", "/mnt/runs"))
STEPS = int(os.environ.get("STEPS", "600"))
PAUSE = float(os.environ.get("PAUSE", "0.5"))
RATE = 0.01


def restore(checkpoint):
    """The step that comes next, and the weights that it begins with."""
    try:
        saved = json.loads(checkpoint.read_text())
    except FileNotFoundError:
        print("no checkpoint: beginning at step 0", flush=True)
        return 0, np.zeros(2)
    print(f"going on from the checkpoint of step {saved['step']}", flush=True)
    return saved["step"] + 1, np.array(saved["weights"])


def save(checkpoint, step, weights):
    """Replaces the checkpoint, so that there is a whole one at each moment."""
    fresh = checkpoint.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump({"step": step, "weights": weights.tolist()}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(checkpoint)


def main():
    # SIGTERM comes before the platform takes the devices away. The step at hand is finished and saved.
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    x, y = np.loadtxt(DATA / "samples.csv", delimiter=",", skiprows=1, unpack=True)
    inputs = np.stack([x, np.ones_like(x)], axis=1)
    OUT.mkdir(parents=True, exist_ok=True)
    checkpoint = OUT / "checkpoint.json"
    step, weights = restore(checkpoint)
    board = EventFileWriter(str(OUT / "board"))
    while step < STEPS and not stopped:
        error = inputs @ weights - y
        loss = float(np.mean(error**2))
        weights = weights - RATE * 2 * inputs.T @ error / len(y)
        value = Summary.Value(tag="loss", simple_value=loss)
        board.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))
        board.flush()
        save(checkpoint, step, weights)
        print(f"step {step}: loss {loss:.4f}", flush=True)
        step += 1
        time.sleep(PAUSE)
    board.close()
    if stopped:
        print(f"stopped after step {step - 1}", flush=True)
        sys.exit(1)
    print(f"y = {weights[0]:.2f} x + {weights[1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
