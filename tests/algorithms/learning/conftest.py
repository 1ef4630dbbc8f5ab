import torch

# With networks as small as these, more threads only wait for each other, above all on a busy machine.
torch.set_num_threads(1)
