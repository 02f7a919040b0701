"""The methods that ours is compared with; torch and mofapy2 are imported by those that need them, when they fit."""

from vedute_reproduction.baselines.autoencoders import Autoencoder, Encoders
from vedute_reproduction.baselines.linear import PCA, PPCA, FactorAnalysis, PCAOfSums
from vedute_reproduction.baselines.mofa import MOFA

__all__ = ["MOFA", "PCA", "PPCA", "Autoencoder", "Encoders", "FactorAnalysis", "PCAOfSums"]
