"""Distributed TensorFlow on Hadoop YARN, and on a laptop."""
