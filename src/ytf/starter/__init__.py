"""The starter: ytf's process in each container.

It takes a port, registers it, waits for the cluster spec, runs the user's
command and reports how that ended. Standard library only, Python 3.8 and
newer, and small: besides itself this package imports ``frameworks``, ``wire``
and ``log``, and no modules that cost memory (``hashlib`` brings OpenSSL,
``http.client`` brings ``email``).

Two ports have their first implementations here: ``registry`` (``rest_registry``)
and ``runner`` (``native_runner``).
"""
