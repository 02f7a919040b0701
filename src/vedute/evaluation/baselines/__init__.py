"""The methods that ours is compared with; torch and mofapy2 are imported by those that need them, when they fit."""

from vedute.evaluation.baselines.autoencoders import Autoencoder, Encoders
from vedute.evaluation.baselines.linear import PCA, PPCA, FactorAnalysis, PCAOfSums
from vedute.evaluation.baselines.mofa import MOFA

__all__ = ["MOFA", "PCA", "PPCA", "Autoencoder", "Encoders", "FactorAnalysis", "PCAOfSums"]
