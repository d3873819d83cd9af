"""Our process in each container: takes a port, reports, waits for the spec, runs the command.

Standard library only, Python 3.8 and newer, and small: this package imports
nothing but itself, and modules that cost memory (``hashlib`` brings OpenSSL,
``http.client`` brings ``email``) are left alone.
"""
