"""The same study between real machines, on NVIDIA FLARE: the only place that imports nvflare."""
