"""What is said of sites: their definition, what is asked of workers, what they answer."""
