"""YARN's protocols as small typed classes.

:class:`~ytf.hadoop.yarn.client.ClientProtocol` is for whoever submits,
:class:`~ytf.hadoop.yarn.master.MasterProtocol` and
:class:`~ytf.hadoop.yarn.node.NodeProtocol` are for an application's master.
"""
