"""YARN's protocols as small typed clients.

``ApplicationClient`` submits and looks at applications. ``ApplicationMasterClient``
and ``ContainerManagementClient`` are for the master of an application.
"""
