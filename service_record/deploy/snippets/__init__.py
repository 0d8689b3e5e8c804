"""What has templates of installers record and report their steps, with nothing but what an installer has."""
