"""Points to features: kernels, scaling, landmarks, random Fourier features."""
