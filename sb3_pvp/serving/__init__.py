"""The prediction socket: fighters that other programs ask for actions. `Client` and `AsyncClient` ask one.

Importing this package loads neither PyTorch nor the server.
"""

from sb3_pvp.serving.client import AsyncClient, Client, Prediction, PredictionError

__all__ = ["AsyncClient", "Client", "Prediction", "PredictionError"]
