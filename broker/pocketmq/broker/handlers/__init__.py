"""The handlers of a broker's requests, one module per family of requests.

Each class gets the few collaborators it uses and tells its handlers by request code.
"""
