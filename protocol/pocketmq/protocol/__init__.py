"""RocketMQ's remoting protocol without IO: frames, headers, bodies, messages, errors.

bytes → `frames.FrameParser` → `command.Command` → a typed header (`requests`) and body (`bodies`);
the way back is `frames.encode`. Nothing here knows of sockets, files, time or chance.
"""
