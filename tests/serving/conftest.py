import torch

# With networks as small as these, more threads only wait for each other.
torch.set_num_threads(1)
