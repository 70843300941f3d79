"""Attention of HSTU, and the implementations that calculate it (gr_model/config/attention.py is their registry)."""
