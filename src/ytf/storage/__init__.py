"""Storage of the journal (blobs), staged files and layers (files), locally and in HDFS."""
