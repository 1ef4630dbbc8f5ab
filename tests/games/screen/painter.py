"""A program with a window: a white square that Left and Right move, and lines on what is done. Needs python-xlib only.

Arguments: the seconds until the window is shown, a file with digits for its score, and the code with which q ends it.
"""

import sys
import time

from PIL import Image
from Xlib import XK, X, display

SIDE, STEP = 20, 10
time.sleep(float(sys.argv[1]))
digits = Image.open(sys.argv[2]).convert("RGB")
shown = display.Display()
screen = shown.screen()
window = screen.root.create_window(0, 0, 200, 100, 0, screen.root_depth, event_mask=(
    X.ExposureMask | X.KeyPressMask | X.KeyReleaseMask | X.ButtonPressMask | X.ButtonReleaseMask
), background_pixel=0)  # fmt: skip
window.set_wm_name("painter")
window.map()
pen = window.create_gc()
at, score, down = 90, 0, set()


def draw() -> None:
    window.clear_area(0, 0, 200, 100)
    pen.change(foreground=0xFFFFFF)
    window.fill_rectangle(pen, at, 60, SIDE, SIDE)
    line = Image.new("RGB", (60, 13))
    for place, digit in enumerate(str(score)):
        line.paste(digits.crop((7 * int(digit), 0, 7 * int(digit) + 7, 13)), (7 * place, 0))
    window.put_pil_image(pen, 0, 0, line)
    shown.sync()


def name_of(code: int) -> str:
    return next(name[3:] for name in dir(XK) if getattr(XK, name) == shown.keycode_to_keysym(code, 0))


while True:
    event = shown.next_event()
    if event.type == X.KeyPress:
        name = name_of(event.detail)
        print("down", name, flush=True)
        if name == "q":
            sys.exit(int(sys.argv[3]))
        at += {"Left": -STEP, "Right": STEP}.get(name, 0)
        score += 5 * (name in ("Left", "Right"))
    elif event.type == X.KeyRelease:
        print("up", name_of(event.detail), flush=True)
    elif event.type in (X.ButtonPress, X.ButtonRelease):
        kind = "press" if event.type == X.ButtonPress else "release"
        print(kind, event.detail, event.event_x, event.event_y, flush=True)
    draw()
