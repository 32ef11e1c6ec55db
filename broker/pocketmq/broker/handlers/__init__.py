"""What a broker answers, one module per family of requests.

Each class gets the few collaborators it uses and tells its handlers by request code.
"""
