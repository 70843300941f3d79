"""Attention of HSTU, and the ways to calculate it."""
