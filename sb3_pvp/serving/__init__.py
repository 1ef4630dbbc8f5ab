"""The prediction socket: fighters that other programs ask for actions. `Client` asks one.

Importing this package loads neither PyTorch nor the server.
"""

from sb3_pvp.serving.client import Client, Prediction, PredictionError

__all__ = ["Client", "Prediction", "PredictionError"]
