"""A provider of Airflow: a connection, a trigger for assets and a sensor, on RocketMQ's topics.

Needs ``pip install 'pocketmq[airflow]'``. Airflow finds the provider by itself.
"""
