"""What may leave a center: policies, the noise behind them, its price, and a measurement of what it hides."""
