"""Named defaults; the import path that the method's page uses."""
