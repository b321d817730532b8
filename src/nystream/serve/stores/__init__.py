"""Where the streams of a service are kept: a SQLite file, a folder that machines share, or Redis."""
