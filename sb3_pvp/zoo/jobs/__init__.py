"""Commands that run in the background: with a log, a name, and everything they start ended with them.

`Jobs` is a folder of them; ``sb3-pvp jobs`` and ``sb3-pvp tensorboard`` are its command line.
"""

from sb3_pvp.zoo.jobs.jobs import Job, JobError, Jobs, Status
from sb3_pvp.zoo.jobs.tensorboard import TensorBoard, ensure_tensorboard

__all__ = ["Job", "JobError", "Jobs", "Status", "TensorBoard", "ensure_tensorboard"]
