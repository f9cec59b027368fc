"""Flower 1.41 as the carrier: the only folder that knows it. Its flags change between minor versions."""
