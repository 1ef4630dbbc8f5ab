# The prediction server, `sb3-pvp serve`, on CPUs; docs/load.md says how to build and run it.
FROM python:3.11-slim AS build

# Where PyTorch's CPU wheels are; those on PyPI bring gigabytes of CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/sb3-pvp
ENV PATH=/opt/sb3-pvp/bin:$PATH

# PyTorch first: it changes least, and its dependencies come with the rest, from PyPI.
COPY constraints.txt ./
RUN grep '^torch==' constraints.txt > torch.txt \
    && pip install --no-deps --index-url "$TORCH_INDEX" --requirement torch.txt
COPY pyproject.toml setup.cfg setup.py README.md LICENSE ./
COPY hyperparams hyperparams
COPY models models
COPY sb3_pvp sb3_pvp
RUN pip install --constraint constraints.txt '.[metrics,onnx]'


FROM python:3.11-slim

# A user without rights; its home takes what Numba compiles.
RUN useradd --uid 10001 --create-home fighter
COPY --from=build /opt/sb3-pvp /opt/sb3-pvp
ENV PATH=/opt/sb3-pvp/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
USER 10001
# Not /, where every file of the machine is at hand, nor /models, which strangers fill.
WORKDIR /home/fighter
VOLUME /models

EXPOSE 9999 9100
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9100/health', timeout=2)"]
# Further options of `sb3-pvp serve` come after the name of the image.
ENTRYPOINT ["sb3-pvp", "serve", "--models", "/models", "--host", "0.0.0.0", "--port", "9999", "--metrics-port", "9100"]
